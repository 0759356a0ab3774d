"""Where the MQTT broker is: what MQTT_URL says."""

from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct


class Address(Struct, frozen=True, kw_only=True):
    """Where the broker is: `mqtt://user:password@host:port`, or `mqtts://…?ca=file&cert=file&key=file`."""

    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    @classmethod
    def of(cls, url: str) -> "Address":
        """Raises ValueError with what is wrong."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"MQTT_URL is no address: {error}") from None
        more = dict(parse_qsl(parts.query))
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
            raise ValueError("MQTT_URL must look like mqtt://user:password@host:1883, or mqtts:// with TLS")
        tls = parts.scheme == "mqtts"
        if wrong := more.keys() - ({"ca", "cert", "key"} if tls else set()):
            raise ValueError(f"MQTT_URL has no setting {sorted(wrong)[0]} (mqtts:// has ca, cert and key)")
        return cls(
            host=parts.hostname, port=port or (8883 if tls else 1883), tls=tls, user=unquote(parts.username or ""),
            password=unquote(parts.password or ""), **more,
        )  # fmt: skip
