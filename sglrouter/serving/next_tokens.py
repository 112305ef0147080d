"""What a model would say next: asked for no token at all, but for how likely a few are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.scheduler import GENERATE, Sampling, generate_request, new_request_id
from sglrouter.output.sample import Sample
from sglrouter.output.scores import label_logprobs
from sglrouter.serving.batch import BatchAnswer
from sglrouter.serving.service import Service
from sglrouter.turns import taking_turns

_NO_TOKEN = Sampling(max_new_tokens=0)

# Takes a prompt's number, the log probabilities of its labels, and its length in tokens.
Add = Callable[[int, Sequence[float], int], None]


def next_tokens(
    service: Service,
    prompts: Sequence[Sequence[int]],
    labels: Sequence[Sequence[int]],
    add: Add,
    body: Callable[[], bytes],
    *,
    lora_id: str,
    metadata: Metadata,
    pause: Callable[[], object],
) -> BatchAnswer:
    """Asks for the log probabilities of labels after each prompt.

    Args:
        service: What serves the request.
        prompts: Checked ids.
        labels: Checked ids, for each prompt.
        add: Takes what comes of each.
        body: Makes the body of all.
        lora_id: The adapter to use; empty for none.
        metadata: Request headers for the engine.
        pause: Called now and then where reading takes long, to let others go on.
    """

    def read(number: int, message: bytes) -> None:
        sample = Sample(service.model.detokenizers, selected_logprobs=True)
        sample.feed([message])
        if sample.failure is not None:
            raise sample.failure
        add(number, label_logprobs(sample, labels[number]), sample.usage.prompt_tokens)

    requests = [
        generate_request(
            request_id=new_request_id(),
            text="",
            ids=ids,
            sampling=_NO_TOKEN,
            stream=False,
            logprobs=True,
            lora_id=lora_id,
            token_ids_logprob=wanted,
        )
        for ids, wanted in taking_turns(zip(prompts, labels, strict=True), pause)
    ]
    return BatchAnswer(service.ask(GENERATE, requests, prompts, metadata), read, body, pause=pause)
