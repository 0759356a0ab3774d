"""The operator API, `/api/v1/`: what other programs may see and do, with the same actions that people's pages use."""

from typing import Any

from ninja import NinjaAPI

from telemetry.api import missions, problems, robots
from telemetry.api.bearer import Bearer
from telemetry.api.problems import nowhere as nowhere  # the view of every address that it does not have


class Api(NinjaAPI):
    """Also what ninja answers by itself is a problem in our words."""

    def _get_urls(self) -> list[Any]:
        return [problems.told(pattern) for pattern in super()._get_urls()]


api = Api(
    title="Drover operator API",
    version="1",
    description="Missions and robots for other programs. How to use it, with examples: docs/api.md.",
    urls_namespace="api",
    docs_url=None,  # its page needs scripts from elsewhere, which our Content-Security-Policy refuses
    auth=Bearer(),
)
api.add_router("", missions.router)
api.add_router("", robots.router)
problems.handle(api)
