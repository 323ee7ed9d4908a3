"""Embed every distinct input once: keys, store, and the job of one model on one source."""
