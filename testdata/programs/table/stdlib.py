# No torch at all.
# needs: plain
# exit: 0
# says: never imported torch
print('done')
