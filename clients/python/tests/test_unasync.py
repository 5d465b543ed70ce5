"""The synchronous client is up to date with the asynchronous one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "unasync.py"


def test_generated_files_are_up_to_date() -> None:
    ran = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
