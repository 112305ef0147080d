"""Ways of writing calls and reasoning, the parts that families are put together from."""
