"""BERT-style sentence encoders, computed with numpy from a folder of weights.

Routing and memory use one as an optional second encoder, if the user provides its folder.
"""

from ekiden.integrations.bert_encoder.encoder import BertEmbedder as BertEmbedder
