"""What is sent to a webhook is signed, with the time in it, so that nobody can forge it or send it again much later.

`Drover-Signature: t=<Unix time, s>,v1=<HMAC-SHA256 of "<t>.<body>" in hex>`. How to check it: docs/webhooks.md.
"""

import hashlib
import hmac
import secrets

HEADER = "Drover-Signature"
PREFIX = "whsec_"


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def signature(secret: str, body: bytes, unix_s: int) -> str:
    """Value of the header for this body, sent at this time."""
    found = hmac.new(secret.encode(), f"{unix_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={unix_s},v1={found}"
