"""CSV files: read with suspicion, written without harm, and what bringing one in would do."""
