# Python without its environment.
# needs: plain
# exit: 0
# says: did not load gpuprof's hook
# command: python -I
print('done')
