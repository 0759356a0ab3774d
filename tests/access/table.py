"""THE TABLE: who may do what at every address of the site. `test_who_may_what.py` holds every address to it.

A new address: add one line. Most need nothing else than one of

    "fleet/map/": Line(get=may(EVERY_ROLE)),                                   a page that shows a person's own sites
    "fleet/robots/<robot_id>/turn": Line(post=here(STEER)),                    a button about one object of a site
    "admin/fleet/robot/import/": Line(get=may(ADMIN), post=may(ADMIN)),        a page with a form
    "robot/v1/events": Line(post=ROBOTS, token_only=True),                     for robots' tokens, without cookies
    "api/v1/robots": Line(get=PROGRAM, token_only=True),                       for API tokens; PROGRAM_HERE: one object

A new model in the admin: one line in MODELS gives all its usual addresses. A method that a line does not name is 405
for everybody. Arguments (`<robot_id>`) are filled from the objects of `world.py`, all of them at Hall 1.
"""

from dataclasses import dataclass
from typing import NamedTuple

EVERY_ROLE = frozenset({"admin", "supervisor", "auditor"})
STEER = frozenset({"admin", "supervisor"})
ADMIN = frozenset({"admin"})
NOBODY: frozenset[str] = frozenset()
EVERYBODY = EVERY_ROLE | {""}

OK, LOGIN, FORBIDDEN, ABSENT, METHOD = "ok", "login", "403", "404", "405"


class Who(NamedTuple):
    """Somebody at the door. `here`: belongs to Hall 1. `everywhere`: to every site."""

    role: str = ""
    here: bool = False
    everywhere: bool = False
    robot: bool = False
    program: bool = False


PEOPLE = {
    "admin": Who("admin", True, True),
    "other_admin": Who("admin"),
    "supervisor": Who("supervisor", True),
    "other_supervisor": Who("supervisor"),
    "auditor": Who("auditor", True, True),
    "site_auditor": Who("auditor", True),
    "outsider": Who(),  # has an account and no role
    "robot": Who(robot=True),  # a bearer token, no session
    "program": Who("supervisor", True, program=True),  # an API token of the supervisor, with every scope
    "other_program": Who("supervisor", program=True),
    "anonymous": Who(),
}
SIGNED_OUT = {"robot", "program", "other_program", "anonymous"}


@dataclass(frozen=True)
class Rule:
    """Who may. `about`: "" nothing of one site, "here" an object of Hall 1, "everywhere" what all sites share."""

    roles: frozenset[str] = NOBODY
    about: str = ""
    robots: bool = False
    programs: bool = False
    public: bool = False
    always: str = ""  # the verdict for everybody
    absent_for: frozenset[str] = NOBODY  # roles that are not even told that it exists

    def allows(self, name: str, found: str) -> bool:
        """Whether this verdict is right. Who may not do it in any case may be told either reason first."""
        who, expected = PEOPLE[name], self.verdict(name)
        if expected == METHOD and (not who.role or who.program):
            return found in (METHOD, LOGIN, FORBIDDEN)
        if (
            self.about == "here"
            and not self.programs
            and not who.here
            and name not in SIGNED_OUT
            and who.role not in self.roles
        ):
            return found in (ABSENT, FORBIDDEN)  # test_leaks.py: and the same for what is not there
        return found == expected

    def verdict(self, name: str) -> str:
        who = PEOPLE[name]
        if self.always or self.public:
            return self.always or OK
        if self.robots:
            return OK if who.robot else LOGIN
        if self.programs:
            return (ABSENT if self.about == "here" and not who.here else OK) if who.program else LOGIN
        if name in SIGNED_OUT:
            return LOGIN
        if who.role in self.absent_for or (self.about == "here" and who.role and not who.here):
            return ABSENT
        if self.about == "everywhere" and not who.everywhere:
            return FORBIDDEN
        return OK if who.role in self.roles else FORBIDDEN


def may(roles: frozenset[str]) -> Rule:
    """These roles, at whatever sites: what they see there is narrowed."""
    return Rule(roles)


def here(roles: frozenset[str], *, unseen_by: frozenset[str] = NOBODY) -> Rule:
    """These roles, about an object of Hall 1; who does not belong there is told that it does not exist."""
    return Rule(roles, "here", absent_for=unseen_by)


def everywhere(roles: frozenset[str]) -> Rule:
    """These roles of those who have every site."""
    return Rule(roles, "everywhere")


NOT_ALLOWED = Rule(always=METHOD)
NOT_THERE = Rule(always=ABSENT)
PUBLIC = Rule(public=True)
TO_SIGN_IN = Rule(always=LOGIN)
ROBOTS = Rule(robots=True)
PROGRAM = Rule(programs=True)
PROGRAM_HERE = Rule(programs=True, about="here")


@dataclass(frozen=True)
class Line:
    """One address. HEAD is as GET. `query` makes the address mean something, {site} is Hall 1; `token_only` needs no CSRF token."""

    get: Rule = NOT_ALLOWED
    post: Rule = NOT_ALLOWED
    put: Rule = NOT_ALLOWED
    patch: Rule = NOT_ALLOWED
    delete: Rule = NOT_ALLOWED
    query: str = ""
    token_only: bool = False

    def rule(self, method: str) -> Rule:
        rule: Rule = getattr(self, "get" if method == "HEAD" else method.lower())
        return rule


class Model(NamedTuple):
    """A model in the admin: who looks at it, adds to it, changes it.

    `about` is "here" when its rows belong to sites, "everywhere" when all sites share them. `actions`: rows are written
    by actions only (PageAdmin); forms and buttons then have addresses of their own, which stand in LINES.
    """

    view: frozenset[str] = EVERY_ROLE
    add: frozenset[str] = NOBODY
    change: frozenset[str] = NOBODY
    about: str = "here"
    actions: bool = False
    adds: str = ""  # "everywhere": only who has every site adds


MODELS = {
    "auth/user": Model(view=ADMIN, add=ADMIN, change=ADMIN, actions=True),
    "auth/group": Model(view=ADMIN, about="everywhere"),
    "fleet/apitoken": Model(view=STEER, add=STEER, actions=True),
    "fleet/brand": Model(add=ADMIN, change=ADMIN, about="everywhere", actions=True),
    "fleet/site": Model(add=ADMIN, change=ADMIN, adds="everywhere", actions=True),
    "fleet/place": Model(add=ADMIN, change=ADMIN, actions=True),
    "fleet/robot": Model(add=ADMIN, change=ADMIN, actions=True),
    "fleet/event": Model(),
    "fleet/command": Model(),
    "fleet/alert": Model(actions=True),
    "fleet/silence": Model(add=ADMIN, actions=True),
    "missions/mission": Model(add=STEER, change=STEER, actions=True),
    "missions/template": Model(add=STEER, change=STEER, actions=True),
    "missions/deadletter": Model(actions=True),
    "telemetry/knock": Model(view=ADMIN),
    "telemetry/tally": Model(),
    "telemetry/webhook": Model(view=ADMIN, add=ADMIN, change=ADMIN, actions=True),
}

STAFF = may(EVERY_ROLE)


def lines_of(path: str, model: Model) -> dict[str, Line]:
    one, shared = f"admin/{path}/<path:object_id>", model.about == "everywhere"
    seen = may(model.view) if shared else here(model.view)
    changed = NOBODY if model.actions else model.change
    lines = {
        f"admin/{path}/": Line(get=may(model.view), post=may(model.view)),
        f"admin/{path}/add/": Line(*2 * [Rule(model.add, "everywhere" if shared else model.adds)]),
        f"{one}/": Line(get=STAFF, post=STAFF),  # leads to change/
        f"{one}/change/": Line(get=seen, post=Rule(changed, "everywhere" if shared else "here")),
        f"{one}/history/": Line(get=seen, post=seen),
        f"{one}/delete/": Line(*2 * [may(NOBODY)]),
    }
    if model.actions:
        lines[f"{one}/edit/"] = Line(*2 * [Rule(model.change, "everywhere" if shared else "here")])
    return lines


def program(path: str, **rules: Rule) -> dict[str, Line]:
    """An address of the operator API; which scope each call needs is in tests/api/test_tokens.py."""
    return {f"api/v1/{path}": Line(**rules, token_only=True)}


def button(path: str, verbs: str, roles: frozenset[str]) -> dict[str, Line]:
    return {f"admin/{path}/<path:object_id>/{verb}/": Line(post=here(roles)) for verb in verbs.split()}


LINES = {
    "": Line(get=PUBLIC),  # leads to the fleet page
    "healthz": Line(get=PUBLIC),
    "readyz": Line(get=PUBLIC),
    "metrics": Line(get=PUBLIC),
    "login/": Line(get=PUBLIC, post=PUBLIC),
    "admin/login/": Line(get=TO_SIGN_IN, post=TO_SIGN_IN),
    "logout/": Line(post=PUBLIC),
    # one's own account: everybody who can sign in
    "account/": Line(get=may(EVERYBODY)),
    "account/password/": Line(get=may(EVERYBODY), post=may(EVERYBODY)),
    "account/sessions/others/end": Line(post=may(EVERYBODY)),
    "account/sessions/<int:number>/end": Line(post=Rule(EVERYBODY, absent_for=EVERYBODY)),  # number 0: nobody's
    # the live page
    "fleet/": Line(get=STAFF),
    "fleet/stop": Line(post=here(STEER), query="site={site}"),
    "fleet/release": Line(post=here(STEER), query="site={site}"),
    "fleet/explain": Line(post=here(STEER), query="site={site}"),
    "fleet/robots/<robot_id>/stop": Line(post=here(STEER)),
    "fleet/robots/<robot_id>/release": Line(post=here(STEER)),
    "fleet/alerts/<int:alert_id>/acknowledge": Line(post=here(STEER)),
    "fleet/missions/<uuid:mission_id>/cancel": Line(post=here(STEER)),
    "fleet/missions/<uuid:mission_id>/pause": Line(post=here(STEER)),
    "fleet/missions/<uuid:mission_id>/resume": Line(post=here(STEER)),
    # the operator API
    "api/<path:path>": Line(*5 * [NOT_THERE], token_only=True),
    "api/v1/": Line(*5 * [NOT_THERE], token_only=True),
    "api/v1/openapi.json": Line(*5 * [PUBLIC], token_only=True),
    **program("missions", get=PROGRAM, post=PROGRAM),
    **program("missions/<uuidstr:mission_id>", get=PROGRAM_HERE),
    **program("missions/<uuidstr:mission_id>/events", get=PROGRAM_HERE),
    **program("missions/<uuidstr:mission_id>/run", post=PROGRAM_HERE),
    **program("missions/<uuidstr:mission_id>/cancel", post=PROGRAM_HERE),
    **program("missions/<uuidstr:mission_id>/pause", post=PROGRAM_HERE),
    **program("missions/<uuidstr:mission_id>/resume", post=PROGRAM_HERE),
    **program("missions/<uuidstr:mission_id>/rerun", post=PROGRAM_HERE),
    **program("sites", get=PROGRAM),
    **program("sites/<int:site_id>/places", get=PROGRAM_HERE),
    **program("sites/<int:site_id>/stop", post=PROGRAM_HERE),
    **program("robots", get=PROGRAM),
    **program("robots/<robot_id>", get=PROGRAM_HERE),
    **program("robots/<robot_id>/stop", post=PROGRAM_HERE),
    **program("robots/<robot_id>/release", post=PROGRAM_HERE),
    # the admin
    "admin/": Line(get=STAFF, post=STAFF),
    "admin/autocomplete/": Line(get=STAFF, query="app_label=fleet&model_name=place&field_name=site"),
    "admin/jsi18n/": Line(get=STAFF),
    "admin/<app_label>/": Line(get=STAFF, post=STAFF),
    "admin/<url>": Line(get=Rule(EVERY_ROLE, absent_for=EVERY_ROLE), post=Rule(EVERY_ROLE, absent_for=EVERY_ROLE)),
    "admin/telemetry/tally/": Line(get=may(EVERY_ROLE), post=may(NOBODY)),
    "admin/telemetry/tally/export.csv": Line(get=may(EVERY_ROLE), post=may(NOBODY)),
    **button("telemetry/webhook", "test enable disable renew", ADMIN),
    # the audit is looked at; nobody changes anything there
    "admin/fleet/event/": Line(get=may(EVERY_ROLE), post=may(NOBODY)),
    "admin/fleet/event/export.csv": Line(get=may(EVERY_ROLE), post=may(NOBODY)),
    "admin/fleet/event/export.jsonl": Line(get=may(EVERY_ROLE), post=may(NOBODY)),
    "admin/fleet/event/<path:object_id>/history/": Line(get=here(EVERY_ROLE), post=here(NOBODY)),
    "admin/missions/mission/check/": Line(post=may(STEER)),  # what the form asks as one types
    "admin/auth/user/<path:object_id>/password/": Line(get=here(ADMIN), post=here(ADMIN)),
    **button("auth/user", "unlock end deactivate reactivate", ADMIN),
    "admin/fleet/robot/import/": Line(get=may(ADMIN), post=may(ADMIN)),
    "admin/fleet/place/import/": Line(get=may(ADMIN), post=may(ADMIN)),
    "admin/fleet/robot/export/": Line(get=may(EVERY_ROLE), post=may(EVERY_ROLE)),
    "admin/fleet/place/export/": Line(get=may(EVERY_ROLE), post=may(EVERY_ROLE)),
    "admin/fleet/robot/<path:object_id>/connect/": Line(get=here(ADMIN), post=here(ADMIN)),
    "fleet/robots/<robot_id>/connection": Line(get=here(EVERY_ROLE)),
    "fleet/robots/<robot_id>/messages": Line(get=here(EVERY_ROLE)),
    "admin/fleet/site/<path:object_id>/map/": Line(get=here(ADMIN), post=here(ADMIN)),
    "admin/fleet/site/<int:site_id>/map/<slug:sha256>.png": Line(get=here(EVERY_ROLE)),
    **button("fleet/site", "remove_map", ADMIN),
    **button("fleet/site", "stop_all", STEER),
    **button("fleet/place", "remove", ADMIN),
    **button("fleet/alert", "acknowledge clear", STEER),
    **button("fleet/silence", "end", ADMIN),
    **button("fleet/robot", "stop release maintain", STEER),
    **button("fleet/apitoken", "revoke", STEER),
    **button("fleet/robot", "retire reinstate issue revoke", ADMIN),
    "admin/missions/mission/<path:object_id>/now/": Line(get=here(EVERY_ROLE)),  # what an open page asks
    **button("missions/mission", "run withdraw approve priority dispatch pause resume cancel", STEER),
    **button("missions/mission", "rerun rerun_unfinished clone hand_over", STEER),
    "admin/missions/template/<path:object_id>/use/": Line(get=here(STEER), post=here(STEER)),
    **button("missions/template", "retire", STEER),
    **button("missions/deadletter", "requeue discard", STEER),
}
for path, model in MODELS.items():
    LINES = lines_of(path, model) | LINES  # a line of its own counts more

ROBOT_HTTP = {  # served beside Django (telemetry/gateways/http/requests.py): address → method that a robot's token opens
    "/robot/v1/events": "POST",
    "/robot/v1/commands": "GET",
    "/robot/v1/commands/ack": "POST",
}
SOCKETS = {  # address → who gets in; a browser is told by a close code, a robot is refused before
    "live/ws": {"admin", "other_admin", "supervisor", "other_supervisor", "auditor", "site_auditor"},
    "robot/v1/ws": {"robot"},
    "": set(),  # every other address
}
