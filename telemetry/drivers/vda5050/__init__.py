"""VDA 5050 (2.0 and 2.1 over MQTT): reads liberally what robots say, writes strictly what they are told."""
