"""E-mail about alerts: who is told what and when; a server that is away holds nothing up and loses nothing."""

import socket
import socketserver
import threading
from datetime import timedelta

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from fleet.alerts import actions as alerts
from fleet.alerts import mail as alert_mail
from fleet.models import Alert, AlertMail, AlertTally
from fleet.settings import mail_server
from tests.actors import START, SYSTEM, user

pytestmark = pytest.mark.django_db
LATER = timedelta(minutes=30)


@pytest.fixture(autouse=True)
def configured(settings):
    settings.EMAIL_CONFIGURED = True
    settings.ALERT_EMAILS = "ops@example.org"
    settings.PUBLIC_URL = "https://drover.example.org"


def critical(cause: str = "c", text: str = "it burns", **more) -> Alert:
    alerts.raise_alert(cause, severity="critical", text=text, now=START, **more)
    return Alert.objects.get(cause=cause, cleared_at=None)


def warning(cause: str = "w", text: str = "mind this", **more) -> Alert:
    alerts.raise_alert(cause, severity="warning", text=text, now=START, **more)
    return Alert.objects.get(cause=cause, cleared_at=None)


def sent() -> list[str]:
    return [f"{m.to[0]} {m.subject}" for m in mail.outbox]


def test_critical_at_once_and_once(site):
    alert = critical(site=site.pk)
    assert alert_mail.step(START)
    assert sent() == ["ops@example.org [Drover] Critical: it burns"]
    critical(site=site.pk)  # raised again: counted, not told again
    assert not alert_mail.step(START + LATER)
    [message] = mail.outbox
    assert f"https://drover.example.org/admin/fleet/alert/{alert.pk}/change/" in message.body
    assert "Hall 1, since 2026-11-29 10:00:00 UTC" in message.body
    assert message.extra_headers["Auto-Submitted"] == "auto-generated"


def test_its_end_is_told_once(site):
    critical()
    alert_mail.step(START)
    alerts.clear_alert("c", now=START + LATER)
    alert_mail.step(START + LATER)
    alert_mail.step(START + 2 * LATER)
    assert sent()[1:] == ["ops@example.org [Drover] Cleared: it burns"]


def test_warnings_are_collected_and_sent_together():
    for number in range(60):
        warning(f"w{number}", f"mind {number}")
    alert_mail.step(START)
    assert sent() == []
    alert_mail.step(START + LATER)
    assert sent() == ["ops@example.org [Drover] Warning: mind 0 (and 59 more)"]
    assert "And 10 more" in mail.outbox[0].body


def test_a_warning_that_went_before_the_digest_is_not_told():
    warning()
    alert_mail.step(START)
    alerts.clear_alert("w", now=START)
    alert_mail.step(START + LATER)
    alert_mail.step(START + 2 * LATER)
    assert sent() == []


def test_important_missions_at_once_and_info_never():
    warning(urgent=True)
    alerts.raise_alert("i", severity="info", text="by the way", now=START)
    alert_mail.step(START)
    alert_mail.step(START + LATER)
    assert sent() == ["ops@example.org [Drover] Warning: mind this"]


def test_what_ends_with_its_acknowledgement_needs_no_second_e_mail():
    critical(lasts=False)
    alert_mail.step(START)
    alerts.acknowledge(Alert.objects.get().pk, by=SYSTEM)
    alert_mail.step(START + LATER)
    assert len(mail.outbox) == 1


def test_silence_delays_and_loses_nothing(site, robot):
    now = timezone.now()
    alerts.silence(site=site, until=now + timedelta(hours=2), why="works", by=SYSTEM, now=now)
    warning(site=site.pk, robot="RB-001", urgent=True)
    critical(site=site.pk, robot="RB-001")
    alert_mail.step(now + timedelta(seconds=1))
    assert sent() == ["ops@example.org [Drover] Critical: it burns"]
    alert_mail.step(now + timedelta(hours=2))
    assert sent()[1:] == ["ops@example.org [Drover] Warning: mind this"]


def test_people_of_the_site_by_role_and_addresses_of_the_site(site, other_site, settings, admin_person, outsider):
    settings.ALERT_EMAILS = "ops@example.org, Hall 1=hall1@example.org, Hall 2=hall2@example.org, nonsense, a@b.c\n"
    for person, address in (
        (user("Ana", "supervisor", site), "ana@example.org"),
        (user("Olga", "supervisor", other_site), "olga@example.org"),
        (user("Otto", "auditor"), "otto@example.org"),
        (admin_person, "ada@example.org"),
        (outsider, "nobody@example.org"),
        (user("Gone", "supervisor", site), "gone@example.org"),
        (user("Evil", "supervisor", site), "evil@example.org\nBcc: all@example.org"),
    ):
        person.email = address
        person.is_active = person.username != "Gone"
        person.save(update_fields=["email", "is_active"])
    everywhere = {"ops@example.org", "a@b.c", "ada@example.org"}
    assert alert_mail.recipients(site.pk) == everywhere | {"hall1@example.org", "ana@example.org"}
    assert alert_mail.recipients(other_site.pk) == everywhere | {"hall2@example.org", "olga@example.org"}
    assert alert_mail.recipients(None) == everywhere


def test_text_of_a_robot_adds_no_header():
    critical(text="x\r\nBcc: all@example.org\u2028\x85 <script>" + "y" * 500)
    alert_mail.step(START)
    [message] = mail.outbox
    assert message.message()["Bcc"] is None
    assert "\n" not in message.subject
    assert len(message.subject) < 200


def test_without_a_server_nothing_is_arranged_then_or_later(settings):
    settings.EMAIL_CONFIGURED = False
    critical()
    alert_mail.step(START)
    settings.EMAIL_CONFIGURED = True
    alert_mail.step(START + LATER)
    assert sent() == []
    assert not AlertTally.objects.filter(mail_opened=False).exists()


# --- a real server


class Smtp(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as a client needs."""

    def handle(self) -> None:
        self.say("220 test")
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            if verb == "RCPT" and "refused@" in line:
                self.say("550 no such mailbox")
            elif verb == "DATA":
                self.say("354 go on")
                text = b""
                while (row := self.rfile.readline()) != b".\r\n":
                    text += row
                self.server.got.append(text.decode())
                self.say("250 taken")
            elif verb == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 fine")

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def server(settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as found:
        found.daemon_threads = True
        found.got = []
        settings.EMAIL_HOST, settings.EMAIL_PORT = found.server_address
        settings.EMAIL_TIMEOUT = 5
        thread = threading.Thread(target=found.serve_forever, args=(0.05,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_over_smtp_and_an_address_that_is_refused_harms_no_other(server, settings):
    settings.ALERT_EMAILS = "refused@example.org, ops@example.org"
    critical(text="Ümläut brennt")
    alert_mail.step(START)
    [text] = server.got
    assert "To: ops@example.org" in text
    assert "Message-ID: <alert-" in text
    states = dict(AlertMail.objects.values_list("address", "error"))
    assert states["ops@example.org"] == ""
    assert "550" in states["refused@example.org"]


def test_a_server_that_is_away_is_tried_again_later_and_is_an_alert_itself(server, settings):
    with socket.socket() as taken:  # bound, not listening: refused at once
        taken.bind(("127.0.0.1", 0))
        settings.EMAIL_PORT, port = taken.getsockname()[1], settings.EMAIL_PORT
        critical()
        alert_mail.step(START)
        alert_mail.step(START + timedelta(seconds=10))  # not yet again
        assert AlertMail.objects.get().tries == 1
        assert Alert.objects.get(cause="mail").text.startswith("E-mail about alerts cannot be sent: Connection")
    settings.EMAIL_PORT = port
    alert_mail.step(START + timedelta(seconds=31))
    assert len(server.got) == 1
    assert not Alert.objects.filter(cause="mail", cleared_at=None).exists()
    alert_mail.step(START + LATER)
    assert len(server.got) == 1


def test_it_is_given_up_after_many_tries(monkeypatch):
    class Broken:
        def open(self) -> None:
            raise OSError("away")

    monkeypatch.setattr(alert_mail, "get_connection", Broken)
    critical()
    for hour in range(30):
        alert_mail.step(START + timedelta(hours=2 * hour))
    assert AlertMail.objects.get().tries == alert_mail.TRIES


def test_what_somebody_else_is_sending_is_left_alone():
    critical()
    alert_mail.arrange(START)
    assert len(alert_mail._claim(START)) == 1
    assert alert_mail._claim(START + timedelta(seconds=60)) == []
    assert len(alert_mail._claim(START + timedelta(seconds=301))) == 1  # its sender died


def test_the_settings_of_the_server():
    assert mail_server({}) == {}
    found = mail_server({"EMAIL_URL": "smtp://me%40x:p%2Fw@mail.example.org:587?tls=yes"})
    assert (found["host"], found["port"], found["user"], found["password"]) == ("mail.example.org", 587, "me@x", "p/w")
    assert (found["tls"], found["ssl"]) == (True, False)
    assert mail_server({"EMAIL_URL": "smtps://mail.example.org"})["port"] == 465
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL"):
        mail_server({"EMAIL_URL": "http://mail"})
