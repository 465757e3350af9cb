#!/usr/bin/env python3
"""Trains with Lightning, the Trainer of transformers, and Accelerate on the CPU, with gpuprof's callback and without.

    python_frameworks.py [lightning|trainer|accelerate]…      each in processes of its own; exit code 1: a check failed

Checked: final weights are the same bits, the recorded steps are those that were asked for, the trace has them, the
findings are in TensorBoard and MLflow (and W&B, offline), a rank that is not asked for records nothing.
"""

import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile

STEPS, TOTAL = range(4, 8), 16


def data():
    import torch

    torch.manual_seed(7)
    x = torch.randn(TOTAL * 8, 32)
    return torch.utils.data.TensorDataset(x, (x.sum(1, keepdim=True) > 0).float())


def network():
    import torch

    torch.manual_seed(11)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 1))


def digest(model):
    h = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        h.update(name.encode() + value.detach().cpu().numpy().tobytes())
    return h.hexdigest()


def mlflow_here():
    """MLflow's store in a folder, which newer releases want to be asked for."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri("file:" + os.path.abspath("mlruns"))
    return mlflow


def lightning(with_callback):
    import lightning.pytorch as pl
    import torch

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()

        def training_step(self, batch, _):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    pl.seed_everything(3, verbose=False)
    callbacks, loggers = [], False
    if with_callback:
        mlflow_here()
        from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger

        from gpuprof.lightning import GpuprofCallback

        callbacks = [GpuprofCallback(steps=STEPS, out="recording")]
        loggers = [TensorBoardLogger("tensorboard"), MLFlowLogger(tracking_uri="file:" + os.path.abspath("mlruns"))]
        loggers.append(WandbLogger(offline=True, save_dir="."))
    model = Module()
    loader = torch.utils.data.DataLoader(data(), batch_size=8, shuffle=True)
    pl.Trainer(max_epochs=1, accelerator="cpu", logger=loggers, callbacks=callbacks, enable_checkpointing=False,
               enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1).fit(model, loader)
    return digest(model.net), callbacks[0] if callbacks else None


def trainer(with_callback):
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x, labels):
            out = self.net(x)
            return {"loss": torch.nn.functional.binary_cross_entropy_with_logits(out, labels), "logits": out}

    def collate(rows):
        return {"x": torch.stack([r[0] for r in rows]), "labels": torch.stack([r[1] for r in rows])}

    transformers.set_seed(3)
    callbacks = []
    if with_callback:
        mlflow_here()
        from gpuprof.transformers import GpuprofCallback

        callbacks = [GpuprofCallback(steps=STEPS, out="recording")]
    args = transformers.TrainingArguments(output_dir="out", num_train_epochs=1, per_device_train_batch_size=8, use_cpu=True, save_strategy="no",
                                          logging_steps=5, report_to=["tensorboard", "mlflow"] if with_callback else [], disable_tqdm=True, seed=3)
    os.environ["TENSORBOARD_LOGGING_DIR"] = "tensorboard"
    model = Model()
    transformers.Trainer(model=model, args=args, train_dataset=data(), data_collator=collate, callbacks=callbacks).train()
    return digest(model.net), callbacks[0] if callbacks else None


def accelerate(with_callback):
    import torch
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration, set_seed

    set_seed(3)
    log_with = []
    if with_callback:
        mlflow_here()
        log_with = ["tensorboard", "mlflow", "wandb"]
        os.environ["WANDB_MODE"] = "offline"
    acc = Accelerator(cpu=True, log_with=log_with or None, project_config=ProjectConfiguration(project_dir=".", logging_dir="tensorboard"))
    if with_callback:
        acc.init_trackers("check")
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer, loader = acc.prepare(model, optimizer, torch.utils.data.DataLoader(data(), batch_size=8, shuffle=True))

    def loop(step):
        for x, y in loader:
            optimizer.zero_grad()
            acc.backward(torch.nn.functional.binary_cross_entropy_with_logits(model(x), y))
            optimizer.step()
            step()

    p = None
    if with_callback:
        import gpuprof.accelerate

        with gpuprof.accelerate.profile(acc, steps=STEPS, out="recording") as p:
            loop(p.step)
        with gpuprof.accelerate.profile(acc, ranks=(5,), out="no-rank") as other:
            pass
        assert not os.path.exists("no-rank") and not other.logged, "a rank that was not asked for recorded"
        acc.end_training()
    else:
        loop(lambda: None)
    return digest(acc.unwrap_model(model)), p


FRAMEWORKS = {"lightning": (lightning, {"TensorBoard", "MLflow", "W&B"}), "trainer": (trainer, {"TensorBoard", "MLflow"}),
              "accelerate": (accelerate, {"TensorBoard", "MLflow", "W&B"})}


def one(name, with_callback):
    """A training in this process; prints one line of JSON."""
    weights, callback = FRAMEWORKS[name][0](with_callback)
    out = {"weights": weights}
    if callback is not None:
        a = callback.analysis
        out.update(recorded=[callback.recorded.start, callback.recorded.stop], logged=callback.logged, answer=a.answer, steps=a.steps,
                   step_s=a.step_s, operators=len(a.json.get("operators") or []))
    print("RESULT " + json.dumps(out))


def run(name, with_callback, folder):
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--one", name, str(int(with_callback))], cwd=folder, capture_output=True, text=True,
                          env=dict(os.environ, WANDB_SILENT="true", TOKENIZERS_PARALLELISM="false"))
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not lines:
        raise SystemExit("%s ended with %d:\n%s\n%s" % (name, done.returncode, done.stdout[-2000:], done.stderr[-4000:]))
    return json.loads(lines[-1][7:]), done.stderr


def traced(folder):
    """Names of the steps in the trace of a recording."""
    traces = glob.glob(os.path.join(folder, "recording", "trace-*.json"))
    assert len(traces) == 1, "traces: %s" % traces
    with open(traces[0], encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    return sorted({e["name"] for e in events if e.get("cat") == "user_annotation" and e["name"].startswith("ProfilerStep#")})


def in_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tags = set()
    for root, _, files in os.walk(os.path.join(folder, "tensorboard")):
        for file in files:
            if "tfevents" in file:
                acc = EventAccumulator(os.path.join(root, file))
                acc.Reload()
                tags |= set(acc.Tags()["scalars"]) | set(acc.Tags()["tensors"])
    return tags


def check(name):
    wanted = FRAMEWORKS[name][1]
    with tempfile.TemporaryDirectory() as folder:
        bare, _ = run(name, False, folder)
        got, err = run(name, True, folder)
        steps = traced(folder)
        tags = in_tensorboard(folder)
        mlflow_files = glob.glob(os.path.join(folder, "mlruns", "**", "findings.md"), recursive=True)
        reports = glob.glob(os.path.join(folder, "recording", "report-*.html"))
    wrong = []
    if bare["weights"] != got["weights"]:
        wrong.append("weights differ: %s and %s" % (bare["weights"], got["weights"]))
    if got["recorded"] != [STEPS.start, STEPS.stop]:
        wrong.append("recorded %s" % got["recorded"])
    if len([s for s in steps]) < len(STEPS):
        wrong.append("the trace has the steps %s" % steps)
    if set(got["logged"]) != wanted:
        wrong.append("logged to %s, not %s" % (got["logged"], sorted(wanted)))
    if not any(t.startswith("gpuprof/findings") for t in tags):
        wrong.append("TensorBoard has the tags %s" % sorted(tags))
    if len(mlflow_files) != 1:
        wrong.append("MLflow has %s" % mlflow_files)
    if len(reports) != 1:
        wrong.append("reports: %s" % reports)
    if got["operators"] == 0:
        wrong.append("the analysis has no operator")
    print("%-10s %s: weights %s, steps %s in the trace %s, logged to %s; %s" % (
        name, "FAIL " + "; ".join(wrong) if wrong else "pass", got["weights"][:12], got["recorded"], len(steps), ", ".join(got["logged"]), got["answer"]), flush=True)
    if wrong:
        print(err[-3000:])
    return not wrong


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3] == "1")
    else:
        sys.exit(0 if all([check(n) for n in sys.argv[1:] or FRAMEWORKS]) else 1)
