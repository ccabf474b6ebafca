"""The GRPO step as a LightningModule."""
