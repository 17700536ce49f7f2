"""The loop, and what sets it up."""
