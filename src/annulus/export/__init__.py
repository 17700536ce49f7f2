"""An encoder as a folder or file that other programs load, and the command `annulus export`.

licences      licences by the Hub's names
card          model card
folder        a folder with model card, which `load_encoder` reads
hub           such a folder to and from a repository of the Hub
transformers  a folder that transformers' AutoModel loads
own_library   a network of timm, torchvision or transformers for its own library
pooled        the part of an encoder that the next two write
torchscript   one file that torch.jit.load loads without annulus
onnx          one file that onnxruntime loads without torch
command       `annulus export`
"""
