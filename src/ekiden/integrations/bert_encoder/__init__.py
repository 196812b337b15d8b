"""Sentence encoders of BERT's kind, computed with numpy from a folder of weights."""

from ekiden.integrations.bert_encoder.encoder import BertEmbedder as BertEmbedder
