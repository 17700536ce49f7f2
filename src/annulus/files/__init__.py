"""Files that stages exchange. Each is written completely or not at all."""
