# The Trainer of transformers on a tiny model, with its slow imports.
# needs: transformers,accelerate
# exit: 0
# says: recorded 5 optimizer steps
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

model = BertForSequenceClassification(BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
data = [{"input_ids": torch.ones(8, dtype=torch.long), "labels": torch.tensor(0)} for _ in range(60)]
with tempfile.TemporaryDirectory() as d:
    args = TrainingArguments(output_dir=d, max_steps=30, per_device_train_batch_size=2, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True)
    Trainer(model=model, args=args, train_dataset=data).train()
print("done")
