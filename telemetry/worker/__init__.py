"""The worker's process: applies what robots said, fires deadlines, steps the queue, judges links."""
