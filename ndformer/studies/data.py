"""Data sets of the experiments: their folders and sources."""

from ndformer.lab.experiment import DataSet

SIGN_DIGITS = DataSet(
    "sign_digits",
    "ten hand signs (github.com/ardamavi/Sign-Language-Digits-Dataset), as train/ and val/ with a folder per class",
)
BCCD = DataSet("bccd_voc", "364 photographs of blood cells (github.com/Shenggan/BCCD_Dataset), as Pascal VOC")
MNIST = DataSet("mnist_idx", "the four MNIST files *-ubyte.gz (all digits, or a few thousand)")
FASHION_MNIST = DataSet(
    "fashion_mnist", "the four files *-ubyte.gz of Fashion-MNIST (github.com/zalandoresearch/fashion-mnist)"
)
NMNIST = DataSet("nmnist", "N-MNIST, as Train/ and Test/ with a folder per class (all recordings, or a few hundred)")
LPC_ACTIONS = DataSet(
    "lpc_actions",
    "six actions drawn from github.com/jrconway3/Universal-LPC-spritesheet, laid out as UCF101's videos/ "
    "and ucfTrainTestlist/",
)
LDRAW10 = DataSet(
    "ldraw10_normal_resampled",
    "ten kinds of bricks of the LDraw parts library (github.com/gkjohnson/ldraw-parts-library), as text files of "
    "points in the layout of modelnet40_normal_resampled",
)
CIFAR10 = DataSet("cifar10", "CIFAR-10's python version of www.cs.toronto.edu/~kriz/cifar.html")
CIFAR100 = DataSet("cifar100", "CIFAR-100's python version of www.cs.toronto.edu/~kriz/cifar.html")
FLOWERS = DataSet("flowers102", "Oxford's 102 flowers (jpg/, imagelabels.mat, setid.mat) of www.robots.ox.ac.uk/~vgg")
TINY_IMAGENET = DataSet("tiny_imagenet", "tiny-imagenet-200.zip of cs231n.stanford.edu, unpacked")
QM9 = DataSet("qm9", "QM9 as arrays in qm9.npz, which docs/get-started/molecules.md describes")
