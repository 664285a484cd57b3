"""Gene expression: a group of one column for each gene."""

import numpy as np

from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Small round blue cell tumours, 83 rows and 2,308 genes: is it a neuroblastoma?

    `kernelweave datasets srbct` says where the table comes from. It is looked for in the
    folder that KERNELWEAVE_DATA names.
    """

    name = "Genes"
    requirements = ["pip::kernelweave"]

    def get_data(self):
        from kernelweave import datasets

        table = datasets.load("srbct")
        Z = np.asfortranarray(table.X, dtype=np.float64)
        Z -= Z.mean(axis=0)
        Z /= Z.std(axis=0)
        y = np.where(np.asarray(table.y) == 2, 1.0, -1.0)
        return {"Z": Z, "groups": np.arange(Z.shape[1] + 1), "y": y - y.mean()}
