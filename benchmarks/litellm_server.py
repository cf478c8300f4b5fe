"""LiteLLM as others run it: its proxy, with models of one upstream: the benchmark's, and one of a real name.

``python -m benchmarks.litellm_server http://127.0.0.1:PORT DIRECTORY``. It is installed into a virtual environment of
its own below ``.cache``, once, at the version named here; the project does not depend on it.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import click

VERSION = "1.104.5"
ENVIRONMENT = Path(__file__).resolve().parents[1] / ".cache" / f"litellm-{VERSION}"

START_SECONDS = 120.0

CONFIG = """\
model_list:
  - model_name: benchmark
    litellm_params:
      model: anthropic/benchmark
      api_base: {upstream}
      api_key: none
  - model_name: claude-opus-5-5
    litellm_params:
      model: anthropic/claude-opus-5-5
      api_base: {upstream}
      api_key: none
router_settings:
  num_retries: 0
"""
SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no request to elsewhere
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


def install() -> Path:
    """LiteLLM's program. Raises CalledProcessError where it cannot be installed."""
    program = ENVIRONMENT / "bin" / "litellm"
    if not program.exists():
        sys.stderr.write(f"installing LiteLLM {VERSION} into {ENVIRONMENT}; this takes a minute, once\n")
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        pip = (ENVIRONMENT / "bin" / "pip", "install", "--quiet", f"litellm[proxy]=={VERSION}")
        subprocess.run(pip, check=True, stdout=sys.stderr)
    return program


def main(upstream: str, directory: Path) -> int:
    (directory / "config.yaml").write_text(CONFIG.format(upstream=upstream))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (install(), "--config", directory / "config.yaml", "--host", "127.0.0.1", "--port", str(port))
    environ = os.environ | SETTINGS | {"HOME": str(directory)}
    with (
        (directory / "output").open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environ) as process,
    ):
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process)
        click.echo(f"LiteLLM listening on {url}")
        return process.wait()


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError):
            urllib.request.urlopen(f"{url}/health/liveliness", timeout=5).close()
            return
        time.sleep(0.2)  # it sends no notification
    process.kill()
    raise RuntimeError("LiteLLM does not answer")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
