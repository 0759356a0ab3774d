"""Is this container's process alive? `python deploy/healthcheck.py web|worker|gateway`; exit code 1 if not."""

import os
import sys
import urllib.request


def request(part: str) -> urllib.request.Request:
    """Web: /healthz, as the proxy in front would ask for it. Worker, gateway: its figures."""
    if part == "web":
        host = os.environ.get("ALLOWED_HOSTS", "localhost").split(",")[0].lstrip(".")
        return urllib.request.Request(
            "http://127.0.0.1:8000/healthz", headers={"Host": host, "X-Forwarded-Proto": "https"}
        )
    headers = {"Authorization": f"Bearer {os.environ.get('METRICS_TOKEN', '')}"}
    return urllib.request.Request(f"http://127.0.0.1:{os.environ['DROVER_METRICS_PORT']}/metrics", headers=headers)


if __name__ == "__main__":
    try:
        urllib.request.urlopen(request(sys.argv[1]), timeout=4).close()  # noqa: S310
    except OSError as error:
        sys.exit(f"not healthy: {error}")
