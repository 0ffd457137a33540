"""The least that a program does to use Reprise: one line before its loop."""

import reprise
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
layers = [nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(10)]
model = nn.Sequential(*layers).to(device).eval()

reprise.enable()

with torch.no_grad():
    for _ in range(30):  # nothing below here knows of Reprise
        x = torch.randn(8, 256, device=device)
        y = model(x)

reprise.wait()  # for builds that are still running; no program needs it
print(reprise.explain())
