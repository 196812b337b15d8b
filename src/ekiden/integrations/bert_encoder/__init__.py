"""BERT-style sentence encoders, computed with numpy from a folder of weights.

Routing and memory use such an encoder as an optional second encoder, if the user provides the
folder.
"""

from ekiden.integrations.bert_encoder.encoder import BertEmbedder as BertEmbedder
