"""The hyperparameters of every algorithm's networks: their width, and the policy's head."""

from jaxtyping import Array, Key

from lobsdice.algorithms.base import Defaults, at_least, hyperparameters
from lobsdice.algorithms.networks import PolicyNet, make_policy
from lobsdice.data.spaces import ActionSpace


@hyperparameters
class Acting(Defaults):
    """An algorithm that learns a policy."""

    width: int = at_least(1, default=256)
    """Units in each of the two hidden layers of every network."""
    components: int = at_least(1, default=1)
    """Gaussians that the policy of continuous actions is a mixture of. Several are for logs in
    which very different actions are right in the same state. Not in the paper."""

    def make_policy(self, key: Key[Array, ""], state_size: int, space: ActionSpace) -> PolicyNet:
        """A fresh policy. One of discrete actions is as free as any mixture."""
        return make_policy(key, state_size, space, self.width, self.components)
