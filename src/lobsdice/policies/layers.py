"""The arrays of a policy, as an exported file holds them."""

import numpy as np

from lobsdice.policies.policy import Policy


def layers(policy: Policy) -> list[tuple[np.ndarray, np.ndarray]]:
    """The weights and the biases of each layer."""
    # No observation is the absorbing state: its indicator is 0, and its weights do nothing.
    first = policy.weights[0][: len(policy.normaliser.mean)]
    return list(zip((first, *policy.weights[1:]), policy.biases, strict=True))
