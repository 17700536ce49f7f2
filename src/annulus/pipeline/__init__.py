"""What stands around a stage and enters no number."""
