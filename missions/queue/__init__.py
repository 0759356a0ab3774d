"""The queue: which mission goes next and to which robot, why others wait, and dispatching."""
