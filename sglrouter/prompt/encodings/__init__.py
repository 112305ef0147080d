"""Prompt formats of models that ship no Jinja template, written in Python."""
