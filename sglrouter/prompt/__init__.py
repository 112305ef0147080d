"""From messages to token ids: the model's files, its chat template, its tokenizer."""
