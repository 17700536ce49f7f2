"""SGD, gradient means over processes, learning-rate schedules."""
