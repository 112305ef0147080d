"""The front door for SGLang: the OpenAI HTTP API in front, engines over gRPC behind."""

__version__ = "0.1.0"
