"""The HTTP interface does what it says of itself: schemathesis makes requests from openapi.json, right ones and wrong ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from story import JOB, SAMPLE

# Texts that are no names of jobs, as its description cannot say what those are, may be refused.
TOO_STRICT = "positive_data_acceptance"


@pytest.mark.parametrize("named", [{}, {"job": JOB, "volume": SAMPLE, "page": 2}], ids=["anything", "what_is_there"])
def test_the_interface_is_as_described(site, tmp_path, named):
    site.finish()
    site.forget_the_library()
    values = "".join(f'"path.{name}" = {value!r}\n' for name, value in named.items())
    (tmp_path / "schemathesis.toml").write_text(f"[parameters]\n{values}")
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"), "run", f"{site.url}/api/v1/openapi.json",
            "--header", f"Authorization: Bearer {site.token}",
            "--phases", "coverage,fuzzing", "--max-examples", "5", "--seed", "1",
            "--checks", "all", "--exclude-checks", TOO_STRICT,
            "--request-timeout", "60", "--continue-on-failure", "--warnings", "off",
        ],
        cwd=tmp_path, text=True, capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    log = site.orchestrator.log.read_text()
    assert "panicked" not in log, log
