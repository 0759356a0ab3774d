"""What is kept of a robot's message: its verdict, and the message itself when it became a dead letter."""

from uuid import UUID

from fleet.ports import evidence
from fleet.ports.evidence import Evidence
from missions.models import DeadLetter
from telemetry.models import ProcessedMessage


def processed(robot_id: str, msg_id: UUID) -> list[Evidence]:
    return [
        Evidence(
            "Message from the robot",
            (
                ("Message", str(row.msg_id)),
                ("Verdict", row.verdict),
                ("Session, number", f"{row.session}, {row.seq}"),
                ("Received (UTC)", f"{row.received_at:%Y-%m-%d %H:%M:%S.%f}"),
                ("Applied (UTC)", f"{row.applied_at:%Y-%m-%d %H:%M:%S.%f}"),
            ),
        )
        for row in ProcessedMessage.objects.filter(robot_id=robot_id, msg_id=msg_id)
    ]


def buried(robot_id: str, msg_id: UUID) -> list[Evidence]:
    return [
        Evidence(
            "Dead letter",
            (
                ("State", row.get_state_display()),
                ("Why", row.reason),
                ("Tries", str(row.tries)),
                ("Result", row.result),
            ),
            row.body,
        )
        for row in DeadLetter.objects.filter(robot_id=robot_id, msg_id=msg_id)
    ]


def connect() -> None:
    evidence.sources[:] = [processed, buried]
