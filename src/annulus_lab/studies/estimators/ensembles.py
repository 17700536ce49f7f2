"""Trains several critics of one form at a time, each on its own loss."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


class Ensemble(nn.Module):
    """R networks of one form as one module: a call is one batched product per layer in place of R small ones.

    The parameters are stacked. An elementwise optimiser (Adam, SGD) then trains R independent networks.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        stacked, _ = stack_module_state(list(networks))
        self.names = list(stacked)
        self.stacked = nn.ParameterList(nn.Parameter(value.detach()) for value in stacked.values())
        # Only its form is used. The list keeps its own parameters out of the module.
        self._form = [networks[0]]

    def forward(self, *inputs: Float[Tensor, "*r n d"], shared: bool = False) -> Float[Tensor, "r *out"]:
        """Each network's output, for its own inputs (R, n, d), or for inputs (n, d) that all share."""
        form = self._form[0]

        def one(parameters: dict[str, Tensor], *its: Tensor) -> Tensor:
            return functional_call(form, parameters, its)

        parameters = dict(zip(self.names, self.stacked, strict=True))
        return vmap(one, in_dims=(0, *[None if shared else 0] * len(inputs)))(parameters, *inputs)
