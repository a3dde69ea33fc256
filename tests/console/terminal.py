"""A program on a terminal of our own, as it looks to whoever sits there."""

import fcntl
import html
import os
import pty
import select
import struct
import subprocess
import termios
import time

import pyte

# Of a terminal with a light ground.
COLOURS = {
    "default": "#1d1b16", "black": "#1d1b16", "red": "#b42318", "green": "#2f7d4f", "brown": "#9a6a13", "blue": "#1f5fa8",
    "magenta": "#8a3b8f", "cyan": "#1c7a85", "white": "#6b675d",
    "brightblack": "#8d887c", "brightred": "#b42318", "brightgreen": "#2f7d4f", "brightbrown": "#9a6a13", "brightblue": "#1f5fa8",
    "brightmagenta": "#8a3b8f", "brightcyan": "#1c7a85", "brightwhite": "#1d1b16",
}
# Seconds.
PATIENCE = 60


class Terminal:
    """A process on a pseudo-terminal. A context: the process ends with it."""

    def __init__(self, command, environment, cwd, columns, lines):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        # What the program asks of the terminal, such as where the cursor is, is answered there.
        self.screen.write_process_input = lambda text: os.write(self.ours, text.encode())
        self.child = subprocess.Popen(
            command, cwd=cwd, env=environment | {"TERM": "xterm-256color", "COLORTERM": ""},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()
        os.close(self.ours)

    def write(self, text):
        os.write(self.ours, text.encode())

    def until(self, shown):
        """Returns once the screen is as `shown` wants it, given its lines."""
        deadline = time.monotonic() + PATIENCE
        while not shown([line.rstrip() for line in self.screen.display]):
            if not select.select([self.ours], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("\n".join(self.screen.display))
            self.stream.feed(os.read(self.ours, 65536))

    def html(self):
        """The screen without the empty lines at its end, as lines of HTML."""
        last = max(number for number, line in enumerate(self.screen.display) if line.strip())
        return "\n".join(self.line(number) for number in range(last + 1))

    def line(self, number):
        row = self.screen.buffer[number]
        text = self.screen.display[number].rstrip()
        pieces = []
        for column in range(len(text)):
            cell = row[column]
            colour = COLOURS.get(cell.fg, f"#{cell.fg}")
            weight = "bold" if cell.bold else "normal"
            pieces.append(f'<span style="color:{colour};font-weight:{weight}">{html.escape(cell.data)}</span>')
        return "".join(pieces)
