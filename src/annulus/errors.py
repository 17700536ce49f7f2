"""The one exception that a user meets: shown as a sentence, without a traceback."""


class InputError(ValueError):
    """Something that the user wrote or supplied cannot work.

    The message names the value received, what was expected, and the way out.
    """
