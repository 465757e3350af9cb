# Five steps of the critic for each step of the generator.
# needs: torch
# exit: 0
# says: ends with number 2 of them to have stepped \(RMSprop\)
import torch

critic, generator = torch.nn.Linear(16, 1), torch.nn.Linear(16, 16)
critic_opt, generator_opt = torch.optim.Adam(critic.parameters()), torch.optim.RMSprop(generator.parameters())
for _ in range(30):
    for _ in range(5):
        critic_opt.zero_grad()
        critic(generator(torch.ones(4, 16)).detach()).sum().backward()
        critic_opt.step()
    generator_opt.zero_grad()
    critic(generator(torch.ones(4, 16))).sum().backward()
    generator_opt.step()
print("done")
