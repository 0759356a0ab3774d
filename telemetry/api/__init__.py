"""The operator API, `/api/v1/`: what other programs may see and do, with the same actions that people's pages use."""

from ninja import NinjaAPI

from telemetry.api import missions, problems, robots
from telemetry.api.bearer import Bearer
from telemetry.api.problems import nowhere as nowhere  # the view of every address that it does not have

api = NinjaAPI(
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
