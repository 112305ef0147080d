class GenerateReader:
    prompt_tokens: int
    completion_tokens: int
    received: int
    cached_tokens: int
    reasoning_tokens: int
    reasoning_seen: int
    spec_accepted_tokens: int
    spec_draft_tokens: int
    finish_reason: str | None
    matched_stop: int | str | None
    failure: tuple[str, str] | None
    logprobs: list[tuple[int, float, list[tuple[int, float]]]]
    next_top: list[tuple[int, float]] | None
    output_ids: list[int]
    input_logprobs: list[tuple[int, float | None, list[tuple[int, float]]]] | None
    selected_logprobs: list[list[tuple[int, float]]]

    def __init__(
        self,
        want_logprobs: bool = False,
        *,
        keep_ids: bool = False,
        want_input_logprobs: bool = False,
        want_selected: bool = False,
    ) -> None: ...
    def feed(self, message: bytes) -> None: ...
    def take_ids(self) -> list[int]: ...
    def take_logprobs(self) -> list[tuple[int, float, list[tuple[int, float]]]]: ...
