"""Nothing to recommend: a recurrent layer of the library."""

import torch

torch.manual_seed(17)
model = torch.nn.LSTM(128, 128, batch_first=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(32, 20, 128)
for _ in range(100000):
    optimizer.zero_grad()
    model(x)[0].square().mean().backward()
    optimizer.step()
