"""Training critics: several of one form at a time, each on its own loss."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


class Ensemble(nn.Module):
    """R networks of one form as one: a call is one batched product per layer in place of R small ones.

    Their parameters are stacked, so that an optimiser that treats every number by itself (Adam, SGD) trains R
    independent networks.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        stacked, _ = stack_module_state(list(networks))
        self.names = list(stacked)
        self.stacked = nn.ParameterList(nn.Parameter(value.detach()) for value in stacked.values())
        # Only its form is used; in a list, so that its own parameters are not registered.
        self._form = [networks[0]]

    def forward(self, *inputs: Float[Tensor, "*r n d"], shared: bool = False) -> Float[Tensor, "r *out"]:
        """Each network's output, for its own inputs (R, n, d), or for `shared` ones (n, d) that all get."""
        form = self._form[0]

        def one(parameters: dict[str, Tensor], *its: Tensor) -> Tensor:
            return functional_call(form, parameters, its)

        parameters = dict(zip(self.names, self.stacked, strict=True))
        return vmap(one, in_dims=(0, *[None if shared else 0] * len(inputs)))(parameters, *inputs)
