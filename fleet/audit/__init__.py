"""The audit: who did what, where, when and why, asked of the history."""
