"""What reads the engine's messages of one sample, by the parameters that it was drawn with."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sglrouter.engines.wire.scheduler import Sampling
from sglrouter.model import Model
from sglrouter.output.sample import Sample


def sample_of(
    model: Model,
    params: Sampling,
    prompt: Sequence[int],
    *,
    logprobs: bool = False,
    keep_ids: bool = False,
    input_logprobs: bool = False,
    selected_logprobs: bool = False,
    shown: Collection[int] = (),
) -> Sample:
    """A reader that ends a text where its engine does.

    Args:
        model: Whose text it is.
        params: What the engine was told.
        prompt: The ids that it was given.
        logprobs: See Sample, as of the others.
        keep_ids: See Sample.
        input_logprobs: See Sample.
        selected_logprobs: See Sample.
        shown: See Sample.
    """
    return Sample(
        model.detokenizers,
        prompt=prompt,
        eos_ids=model.files.eos_ids,
        stop=params.stop,
        stop_token_ids=params.stop_token_ids,
        ignore_eos=params.ignore_eos,
        keep_stop=params.no_stop_trim,
        skip_special=params.skip_special_tokens,
        logprobs=logprobs,
        keep_ids=keep_ids,
        input_logprobs=input_logprobs,
        selected_logprobs=selected_logprobs,
        shown=shown,
    )
