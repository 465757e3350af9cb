"""The residual network of the workload serving in PyTorch, with the names of torchvision's ResNet, for the scripts beside this file."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        side = x if self.downsample is None else self.downsample(x)
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + side)


class ResNet(nn.Module):
    """Above 64 pixels the stem is 7x7 with stride 2 and a max pooling behind it, else 3x3."""

    def __init__(self, image, width, blocks, classes):
        super().__init__()
        large = image > 64
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False) if large else nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        channels, self.stages = width, len(blocks)
        for stage, count in enumerate(blocks):
            layer = []
            for b in range(count):
                layer.append(Block(channels, width << stage, 2 if stage > 0 and b == 0 else 1))
                channels = width << stage
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def drawn(image, width, blocks, classes, seed):
    """A network in evaluation mode whose norms change what they are given."""
    torch.manual_seed(seed)
    net = ResNet(image, width, blocks, classes).eval()
    with torch.no_grad():
        for m in net.modules():
            if isinstance(m, nn.Conv2d):
                m.weight.normal_(0, (2 / (m.in_channels * m.kernel_size[0] ** 2)) ** 0.5)
            elif isinstance(m, nn.BatchNorm2d):
                m.weight.uniform_(0.5, 1.5)
                m.bias.normal_(0, 0.1)
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.5, 2)
    return net
