"""Where and how numbers are made."""
