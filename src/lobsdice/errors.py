"""The errors that a user is meant to read."""


class LobsDICEError(Exception):
    """A one-sentence account of what is wrong with an input and where, fit to print as it is."""


class NotFiniteError(LobsDICEError):
    """An observation for which a policy has no action."""
