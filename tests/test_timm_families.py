"""Keys of timm's networks equal the queries' embeddings at equal weights, for each group of shuffled batch-norm.

Each family of timm's registry is tested by a small model without trained weights; `TOO_LARGE` lists the exceptions.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from annulus.device.rng import first_weights
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.methods.keys import KeyEncoder

timm = pytest.importorskip("timm")
BATCH = 4

# Family, model, pixels of a side, and settings that make the model smaller. The side leaves each group more than two
# values a channel: batch-norm of two close values amplifies their rounding.
FAMILIES = """
byoanet lambda_resnet26t 64
byobnet test_byobnet 32
cait cait_xxs24_224 32 img_size=32 depth=4
coat coat_lite_tiny 32 img_size=32
convit convit_tiny 32 img_size=32
convmixer convmixer_768_32 32
convnext test_convnext 32
cpubone cpubone_nano 32
crossvit crossvit_9_240 32
csatv2 csatv2 64
cspnet cs3darknet_focus_s 32
cspnext cspnext_tiny 32
davit davit_tiny 32
deit deit_tiny_patch16_224 32 img_size=32 depth=4
densenet densenet121 32
dla dla46x_c 32
dpn dpn48b 32
edgenext edgenext_xx_small 32
efficientformer efficientformer_l1 224
efficientformer_v2 efficientformerv2_s0 32 img_size=32
efficientnet test_efficientnet 32
efficientvim efficientvim_m1 32
efficientvit_mit efficientvit_b0 32
efficientvit_msra efficientvit_m0 32 img_size=32
eva eva02_tiny_patch14_224 32 img_size=32 depth=4
fasternet fasternet_t0 32
fastvit fastvit_t8 32
focalnet focalnet_tiny_srf 32
gcvit gcvit_xxtiny 32 img_size=32
ghostnet ghostnet_050 32
hardcorenas hardcorenas_a 32
hgnet hgnetv2_b0 32
hiera hiera_tiny_224 32 img_size=32
hieradet_sam2 hieradet_small 32
hrnet hrnet_w18_small 32
iformer iformer_t 32
inception_next inception_next_atto 32
inception_resnet_v2 inception_resnet_v2 96
inception_v3 inception_v3 96
inception_v4 inception_v4 96
lcnetv2 lcnetv2_small 32
levit levit_128s 128 img_size=128
lowformer lowformer_b0 32
mambaout test_mambaout 32
maxxvit test_coatnet 32 img_size=32
metaformer poolformer_s12 32
mlp_mixer gmlp_ti16_224 32 img_size=32
mobilenetv3 lcnet_035 32
mobilevit mobilevit_xxs 32
mvitv2 mvitv2_tiny 32 img_size=32
nasnet nasnetalarge 64 num_features=672 stem_size=24
nest nest_tiny 64 img_size=64
nextvit nextvit_small 64
nfnet test_nfnet 32
pit pit_ti_224 32 img_size=32
pnasnet pnasnet5large 64
pvt_v2 pvt_v2_b0 32
rdnet rdnet_tiny 32
regnet regnetx_002 32
repghost repghostnet_050 32
repvit repvit_m0_9 32
res2net res2net50_48w_2s 32
resnest resnest14d 32
resnet test_resnet 32
resnetv2 resnetv2_18 32
rexnet rexnetr_100 32
selecsls selecsls42 32
senet legacy_seresnet18 32
sequencer sequencer2d_s 32 img_size=32
shvit shvit_s1 32
sknet skresnet18 32
starnet starnet_s050 32
swiftformer swiftformer_xs 32
swin_transformer swin_tiny_patch4_window7_224 32 img_size=32
swin_transformer_v2 swinv2_tiny_window8_256 32 img_size=32
swin_transformer_v2_cr swinv2_cr_tiny_224 32 img_size=32
tiny_vit tiny_vit_5m_224 32
tnt tnt_s_patch16_224 32 img_size=32 depth=4
tresnet tresnet_m 32
twins twins_svt_small 32
vgg vgg11_bn 32
visformer visformer_tiny 32 img_size=32
vision_transformer test_vit 32 img_size=32
vision_transformer_hybrid vit_tiny_r_s16_p8_224 32 img_size=32
vision_transformer_relpos test_vit_relpos 32 img_size=32
vitamin vitamin_small_224 32 img_size=32
volo volo_d1_224 32 img_size=32
vovnet ese_vovnet19b_slim_dw 32
xception legacy_xception 32
xception_aligned xception41 32
xcit xcit_nano_12_p16_224 32
"""
# Each family's smallest model has more than 80 million weights and no batch-norm: its key network is a plain copy.
TOO_LARGE = {
    "beit": "beit_base_patch16_224",
    "deepseek_vit": "deepseek_vit_412m_enc",
    "gemma4_vit": "gemma4_vit_167m_enc",
    "mobilenetv5": "mobilenetv5_base",
    "naflexvit": "naflexvit_base_patch16_gap",
    "qwen3_vit": "qwen3_vit_88m_enc",
    "vision_transformer_sam": "samvit_base_patch16_224",
}
ROWS = {row.split()[0]: row.split()[1:] for row in FAMILIES.strip().splitlines()}
# Batch-norm with an activation in its forward, plain batch-norm, and models without batch-norm.
FEW = "byobnet", "efficientnet", "mobilenetv3", "regnet", "resnet", "vision_transformer"


def build(family):
    """Network in training mode, and images. Random batch-norm weights make an activation after them visible."""
    model, side, *rest = ROWS[family]
    settings = {name: int(value) for name, value in (pair.split("=") for pair in rest)}
    with first_weights(0):
        network = timm.create_model(model, num_classes=0, **settings).train()
        for layer in network.modules():
            if isinstance(layer, _BatchNorm):
                nn.init.uniform_(layer.weight, 0.5, 2)
                nn.init.normal_(layer.bias)
            if hasattr(layer, "drop_rate"):
                layer.drop_rate = 0.0
            if "Drop" in type(layer).__name__:
                layer.eval()
    return network, torch.rand(BATCH, 3, int(side), int(side), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def keys_equal_queries(family):
    query, images = build(family)
    whole, halves = (KeyEncoder(ModuleEncoder(query), 0.9, groups, seed=0) for groups in (1, 2))
    order = torch.randperm(BATCH, generator=torch.Generator().set_state(halves.generator.get_state()))
    [keys] = halves(images)
    expected = torch.empty_like(keys)
    for rows in order.chunk(2):  # one group after the other, through the query's own layers
        expected[rows] = F.normalize(query(images[rows]), dim=1)
    torch.testing.assert_close(keys, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close([*halves.encoder.buffers()], [*query.buffers()], rtol=1e-4, atol=1e-4)
    # Rounding may depend on where a copy's weights lie in memory: by 4e-6 on a Xeon.
    torch.testing.assert_close(whole.encoder.network(images), query(images), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FEW)
def test_keys_of_timm_s_networks_equal_queries(family):
    keys_equal_queries(family)


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({*ROWS} - {*FEW}))
def test_keys_of_each_family_of_timm_equal_queries(family):
    keys_equal_queries(family)


@pytest.mark.slow
def test_every_family_of_timm_is_taken_and_those_too_large_to_build_have_no_batch_norm():
    assert {*timm.list_modules()} == {*ROWS, *TOO_LARGE}, "name a small model of each new family"
    for model in TOO_LARGE.values():
        with torch.device("meta"):
            network = timm.create_model(model, num_classes=0)
        assert not any(isinstance(layer, _BatchNorm) for layer in network.modules()), model
        assert sum(weight.numel() for weight in network.parameters()) > 80e6, model
