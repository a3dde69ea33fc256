"""A cluster of real processes on this machine, with scans, certificates and state in a temporary folder."""

import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = "W0PARKHANG-I0SAMPLE"


class Process:
    """A node, from its READY line until it is stopped."""

    def __init__(self, cluster, role, orchestrators):
        environment = cluster.environment | {
            "PARKHANG_CLUSTER__ORCHESTRATORS": orchestrators,
            "PARKHANG_NODE__NAME": role.replace(",", "-"),
        }
        self.log = cluster.folder / f"{role}.log"
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [cluster.node, "--role", role],
                cwd=cluster.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=log,
            )
        self.ready = self.child.stdout.readline().split()
        if self.ready[:1] != ["READY"]:
            raise RuntimeError(f"{role} did not start:\n{self.log.read_text()}")

    def said(self, name):
        """What the READY line says as NAME=VALUE."""
        return next(word.removeprefix(f"{name}=") for word in self.ready if word.startswith(f"{name}="))

    @property
    def address(self):
        return self.ready[-1]

    def stop(self):
        self.child.terminate()
        self.child.wait()


class Cluster:
    """An orchestrator, and workers where they are asked for. A context: all ends with it."""

    def __init__(self, settings=None):
        # The binary that the build left.
        self.node = os.environ["NODE_BINARY"]
        self.temporary = tempfile.TemporaryDirectory(prefix="parkhang-console-")
        self.folder = Path(self.temporary.name)
        # The private Postgres may run as another user, who must come through here.
        self.folder.chmod(0o755)
        self.scans = self.folder / "scans"
        shutil.copytree(ROOT / "tests/fixtures/sample" / SAMPLE, self.scans / SAMPLE)
        unset = {"DATABASE_URL", "PARKHANG_LOG", "PARKHANG_CONFIG", "PARKHANG_SERVER", "PARKHANG_TOKEN"}
        self.environment = {name: value for name, value in os.environ.items() if name not in unset}
        self.processes = []
        pki = self.folder / "pki"
        self.run("tls", "init", str(pki))
        self.run("tls", "issue", str(pki), "here", "--host", "127.0.0.1")
        self.environment |= {
            "PARKHANG_API__LISTEN": "127.0.0.1:0",
            "PARKHANG_CLUSTER__COOKIE_FILE": str(pki / "cookie"),
            "PARKHANG_CLUSTER__LISTEN": "127.0.0.1:0",
            "PARKHANG_CLUSTER__TLS__CA_FILE": str(pki / "ca.pem"),
            "PARKHANG_CLUSTER__TLS__CERTIFICATE_FILE": str(pki / "here.pem"),
            "PARKHANG_CLUSTER__TLS__KEY_FILE": str(pki / "here.key"),
            "PARKHANG_NODE__STATE_DIR": str(self.folder / "state"),
            "PARKHANG_PAGES__FOLDER": str(self.scans),
            "PARKHANG_STORAGE__FOLDER": str(self.folder / "artifacts"),
        } | (settings or {})

    def __enter__(self):
        try:
            # It dials no other orchestrator, but a list of them must not be empty.
            self.orchestrator = self.start("orchestrator", "127.0.0.1:1")
        except BaseException:
            self.__exit__()
            raise
        self.url = self.orchestrator.said("api")
        self.token = (self.folder / "state/api-token").read_text().strip()
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stop()
        self.temporary.cleanup()

    def start(self, role, orchestrators=None):
        process = Process(self, role, orchestrators or self.orchestrator.address)
        self.processes.append(process)
        return process

    def run(self, *arguments, allowed=(0,)):
        """Runs a command of `node` to its end, and returns what it printed."""
        done = subprocess.run([self.node, *arguments], cwd=self.folder, env=self.environment, text=True, capture_output=True)
        if done.returncode not in allowed:
            raise RuntimeError(f"node {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, path, body=None):
        """What the interface answers: JSON, or bytes."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
            return json.loads(content) if answer.headers.get_content_type() == "application/json" else content
