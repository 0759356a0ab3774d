"""Where robots' links end: over WebSocket (ws), HTTP and MQTT; beside them what all three share."""
