"""An encoder as a folder or file that other programs load, and the command `annulus export`.

folder        what huggingface_hub uploads, and `load_encoder` reads
card          its model card
transformers  a folder that transformers' AutoModel loads
torchscript   one file that torch.jit.load loads without annulus
command       `annulus export`
"""
